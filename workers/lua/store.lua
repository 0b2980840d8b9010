#!lua flags=allow-oom
-- Store an action's result and tell who waits, while its grant stands.
-- KEYS grants result   ARGV grant payload seconds   -> 1, or 0 if the grant is gone
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('SETEX', KEYS[2], ARGV[3], ARGV[2])
redis.call('PUBLISH', KEYS[2], ARGV[2])
return 1

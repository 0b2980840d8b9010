#!lua flags=allow-oom
-- Note what a grant holds now, unless it has ended.
-- KEYS epoch grants   ARGV epoch grant record   -> 1, or 0 if it has ended
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another scheduler leads') end
if redis.call('HEXISTS', KEYS[2], ARGV[2]) == 0 then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1

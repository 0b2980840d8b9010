#!lua flags=allow-oom
-- After a restart of the broker, which may have forgotten its last second: this grant ended, with this result.
-- KEYS nodes grants running raws pending ended done result
-- ARGV node grant record seq action message expiry payload seconds   -> 1, or 0 if the node was given up
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if ARGV[8] ~= '' and redis.call('EXISTS', KEYS[8]) == 0 then
  redis.call('SETEX', KEYS[8], ARGV[9], ARGV[8])
  redis.call('PUBLISH', KEYS[8], ARGV[8])
end
redis.call('ZADD', KEYS[6], ARGV[7], ARGV[6])
local raw = redis.call('HGET', KEYS[5], ARGV[4])
if raw and string.find(raw, ARGV[5], 1, true) then redis.call('HDEL', KEYS[5], ARGV[4]) end
if redis.call('HDEL', KEYS[2], ARGV[2]) == 1 then
  redis.call('HDEL', KEYS[3], ARGV[2])
  redis.call('HDEL', KEYS[4], ARGV[2])
  redis.call('XADD', KEYS[7], '*', 'm', ARGV[3])
end
return 1

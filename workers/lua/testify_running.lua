#!lua flags=allow-oom
-- After a restart of the broker, which may have forgotten its last second: this grant was claimed and runs here.
-- KEYS nodes grants running raws pending   ARGV node grant claim record raw seq message
-- -> 1, or 0 if the node was given up
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
if redis.call('HSETNX', KEYS[2], ARGV[2], ARGV[4]) == 1 then redis.call('HSET', KEYS[4], ARGV[2], ARGV[5]) end
local raw = redis.call('HGET', KEYS[5], ARGV[6])
if raw and string.find(raw, ARGV[7], 1, true) then redis.call('HDEL', KEYS[5], ARGV[6]) end
return 1

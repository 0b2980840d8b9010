#!lua flags=allow-oom
-- Take the lead, also when it is ours already, and open a new epoch. After a restart of the broker, which may have
-- forgotten the epochs of its last second, the new one is far above all of those.
-- KEYS leader epoch run   ARGV name milliseconds run   -> the epoch, or 0 if somebody else leads
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local run = redis.call('GET', KEYS[3])
if run ~= ARGV[3] then redis.call('SET', KEYS[3], ARGV[3]) end
if run and run ~= ARGV[3] then redis.call('INCRBY', KEYS[2], 1000) end
return redis.call('INCR', KEYS[2])

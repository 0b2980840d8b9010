#!lua flags=allow-oom
-- Turn a pending message into a grant and deliver the granted copy to its node's queue.
-- KEYS epoch pending grants raws queue   ARGV epoch seq grant record copy   -> 1, or 0 if it is not pending
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another scheduler leads') end
local raw = redis.call('HGET', KEYS[2], ARGV[2])
if not raw then return 0 end
redis.call('HDEL', KEYS[2], ARGV[2])
redis.call('HSET', KEYS[4], ARGV[3], raw)
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
redis.call('LPUSH', KEYS[5], ARGV[5])
return 1

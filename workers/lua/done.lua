#!lua flags=allow-oom
-- DONE: end a grant once. With a seq, the message goes back among the pending ones at its old place.
-- KEYS grants running raws done pending   ARGV grant worker record requeue   -> 1, or 0 if it is not ours to end
local holder = redis.call('HGET', KEYS[2], ARGV[1])
if holder and string.sub(holder, 1, #ARGV[2]) ~= ARGV[2] then return 0 end
local grant = redis.call('HGET', KEYS[1], ARGV[1])
if not grant then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
local raw = redis.call('HGET', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
if ARGV[4] == '1' and raw then redis.call('HSET', KEYS[5], cjson.decode(grant).seq, raw) end
redis.call('XADD', KEYS[4], '*', 'm', ARGV[3])
return 1

#!lua flags=allow-oom
-- Take a grant back; with a raw message, put that back among the pending ones at its old place.
-- KEYS epoch grants running raws pending   ARGV epoch grant only_unstarted seq raw   -> 1, or 0 if it ended or runs
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another scheduler leads') end
if ARGV[3] == '1' and redis.call('HEXISTS', KEYS[3], ARGV[2]) == 1 then return 0 end
if redis.call('HDEL', KEYS[2], ARGV[2]) == 0 then return 0 end
redis.call('HDEL', KEYS[3], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[2])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[5], ARGV[4], ARGV[5]) end
return 1

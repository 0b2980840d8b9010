#!lua flags=allow-oom
-- START: claim a grant once.
-- KEYS grants running   ARGV grant claim   -> 1, or 0 if the grant is gone or was claimed before
-- The claim is new for each message, so that asking again after a lost answer is not taken for a second message.
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then return 1 end
return redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])

-- START: claim a grant once.
-- KEYS grants running   ARGV grant worker   -> 1, or 0 if the grant is gone or was claimed before
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])

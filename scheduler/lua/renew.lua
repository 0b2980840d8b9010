#!lua flags=allow-oom
-- Keep the lead. KEYS leader   ARGV name milliseconds   -> 1, or 0 if it is not ours any more
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])

#!lua flags=allow-oom
-- Announce a node, also to a full broker: it must not be taken for dead.
-- KEYS nodes   ARGV node record   -> 1 if it was not known
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])

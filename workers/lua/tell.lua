#!lua flags=allow-oom
-- Tell the scheduler something, also through a full broker.
-- KEYS events   ARGV message
return redis.call('XADD', KEYS[1], '*', 'm', ARGV[1])

#!lua flags=allow-oom
-- START: claim a grant once.
-- KEYS grants running   ARGV grant claim generation   -> 1, or 0 if the grant is gone, was claimed before, or is not ours
-- The claim is new for each message, so that asking again after a lost answer is not taken for a second message.
-- A grant to the process before us is taken back when the scheduler learns of us; started here it would count as lost.
local grant = redis.call('HGET', KEYS[1], ARGV[1])
if not grant or cjson.decode(grant).generation ~= ARGV[3] then return 0 end
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then return 1 end
return redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])

#!lua flags=allow-oom
-- Run plain commands only while we lead. ARGV epoch, then a JSON list of commands: [["HDEL", key, field], ...]
-- KEYS epoch
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another scheduler leads') end
for _, command in ipairs(cjson.decode(ARGV[2])) do redis.call(unpack(command)) end
return 1

-- Move up to n messages from the admission list into the pending hash, oldest first, then read the streams. In this
-- order, so that a trajectory's opening, which was sent before its first action, is always seen with it or earlier.
-- KEYS epoch admission seq pending control events done   ARGV epoch n messages
-- -> {{seq, raw, ...}, control entries, events entries, done entries}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another scheduler leads') end
local taken = {}
-- With more control messages than one answer holds, an opening could be left behind while its first action is taken.
local whole = ARGV[3] == '1' and redis.call('XLEN', KEYS[5]) <= tonumber(ARGV[2])
local room = whole and tonumber(ARGV[2]) or 0
for _ = 1, math.min(room, redis.call('LLEN', KEYS[2])) do
  -- A full broker refuses this, and messages wait in the list, before anything is taken out.
  local seq = redis.pcall('INCR', KEYS[3])
  if type(seq) == 'table' then break end
  local raw = redis.call('RPOP', KEYS[2])
  redis.call('HSET', KEYS[4], seq, raw)
  taken[#taken + 1] = seq
  taken[#taken + 1] = raw
end
local answer = {taken}
for stream = 5, 7 do answer[#answer + 1] = redis.call('XRANGE', KEYS[stream], '-', '+', 'COUNT', ARGV[2]) end
return answer

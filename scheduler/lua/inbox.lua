-- Move up to n messages from the admission list into the pending hash, oldest first, then read the streams. In this
-- order, so that a trajectory's opening, which was sent before its first action, is always seen with it or earlier.
-- KEYS epoch admission seq pending control events done   ARGV epoch n
-- -> {{seq, raw, ...}, control entries, events entries, done entries}
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return redis.error_reply('FENCED another scheduler leads') end
local taken = {}
for _ = 1, tonumber(ARGV[2]) do
  local raw = redis.call('RPOP', KEYS[2])
  if not raw then break end
  local seq = redis.call('INCR', KEYS[3])
  redis.call('HSET', KEYS[4], seq, raw)
  taken[#taken + 1] = seq
  taken[#taken + 1] = raw
end
local answer = {taken}
for stream = 5, 7 do answer[#answer + 1] = redis.call('XRANGE', KEYS[stream], '-', '+', 'COUNT', ARGV[2]) end
return answer

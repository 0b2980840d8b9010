-- Move up to n messages from the admission list into the pending hash, oldest first.
-- KEYS epoch admission seq pending   ARGV epoch n   -> {seq, raw, seq, raw, ...}
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
return taken

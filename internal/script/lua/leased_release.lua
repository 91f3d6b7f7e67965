-- Release the permits of one lease. Idempotent.
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of the waiters
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 PUBLISH or SPUBLISH
-- RETURN  0  some were no longer held; the others were released
--         1 + the number of clients that received the message
local now = clock()
local ids = split(ARGV[1])
local back, held = 0, 0
for _, id in ipairs(ids) do
  local ends = tonumber(redis.call('zscore', KEYS[2], id))
  if ends then
    back = back + redis.call('zrem', KEYS[2], id)
    if ends > now then held = held + 1 end
  end
end
local heard = restore(KEYS[1], back, ARGV[2], KEYS[3])
return held == #ids and 1 + heard or 0

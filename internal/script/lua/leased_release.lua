-- Give back the permits of one lease. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the leases: ids by when they end
--       3 the channel that waiters listen to
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 PUBLISH or SPUBLISH
-- RETURN  0  some were not held any more; the others were given back
--         1 + the clients that heard of it
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

-- Give back permits by their ids, all or none. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the leases: ids by when they end
--       3 the channel that waiters listen to
--       4 the mark of the lane
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 number of the request
--       3 how long to remember it, in ms
--       4 PUBLISH or SPUBLISH
-- RETURN  1 given back, 0 some were not held
local known = recall(KEYS[4], ARGV[2])
if known then return known == 'done' and 1 or 0 end
local now = clock()
whole(KEYS[1]) -- fails where the permits could not be given back
local ids = split(ARGV[1])
for _, id in ipairs(ids) do
  local ends = tonumber(redis.call('zscore', KEYS[2], id))
  if not ends or ends <= now then
    remember(KEYS[4], ARGV[2], 'not held', ARGV[3])
    return 0
  end
end
local back = over(KEYS[2], now)
for _, id in ipairs(ids) do back = back + redis.call('zrem', KEYS[2], id) end
remember(KEYS[4], ARGV[2], 'done', ARGV[3])
restore(KEYS[1], back, ARGV[4], KEYS[3])
return 1

-- Release permits by their ids, all or none. Idempotent.
-- USES  once clock int64 leased
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of the waiters
--       4 the mark of the request series
-- ARGV  1 the ids of the permits, 16 bytes each
--       2 number of the request
--       3 how long to keep the mark, in ms
--       4 PUBLISH or SPUBLISH
-- RETURN  1 released, 0 some were not held
local known = recall(KEYS[4], ARGV[2])
if known then return known == 'done' and 1 or 0 end
local now = clock()
whole(KEYS[1]) -- fails if the permits cannot be released
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

-- Take permits, each with a lease. Running it twice does what running it once does.
-- KEYS  1 the number of free permits
--       2 the leases: ids by when they end
--       3 the channel that waiters listen to
-- ARGV  1 lease time in ms
--       2 the ids of the permits, 16 bytes each
--       3 PUBLISH or SPUBLISH
-- RETURN  > 0   taken; a token above those of all earlier grants
--         <= 0  not enough: -1 - the ms until the next lease ends, 0 if none does
--         nothing, if there is no such semaphore
local now = clock()
local free = whole(KEYS[1]) -- before anything is written: what is unreadable is left alone
local back = over(KEYS[2], now)
restore(KEYS[1], back, ARGV[3], KEYS[3])
local ids, missing = split(ARGV[2]), 0
for _, id in ipairs(ids) do
  if not redis.call('zscore', KEYS[2], id) then missing = missing + 1 end
end
if missing > 0 then
  if not free then return false end
  if free + back < missing then
    local next = tonumber(redis.call('zrange', KEYS[2], 0, 0, 'withscores')[2])
    -- Whatever the scores are, this is no grant: where more leases are over than are taken off at a time, it is -1.
    return next and next < FOREVER and -1 - math.max(math.ceil(next - now), 0) or 0
  end
  redis.call('decrby', KEYS[1], missing)
end
-- A copy that comes late must not shorten what was extended meanwhile.
for _, id in ipairs(ids) do
  if tonumber(redis.call('zscore', KEYS[2], id) or 0) < now + ARGV[1] then redis.call('zadd', KEYS[2], now + ARGV[1], id) end
end
local ttl = redis.call('pttl', KEYS[1])
if ttl > 0 then redis.call('pexpire', KEYS[2], ttl) end
local time = redis.call('time')
return time[1] * 1000000 + time[2]

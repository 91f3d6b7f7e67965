-- The operations on permits of one lease.
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of the waiters

-- take acquires permits. It returns a token, or a number up to 0 if there are not enough: -1 - the ms until the next lease ends, 0 if
-- none does. It returns false if there is no such semaphore.
local function take(lease, row, publish)
  local now = clock()
  local free = whole(KEYS[1]) -- before the first write, so that unreadable data is not changed
  local back = over(KEYS[2], now)
  restore(KEYS[1], back, publish, KEYS[3])
  local ids, missing = split(row), 0
  for _, id in ipairs(ids) do
    if not redis.call('zscore', KEYS[2], id) then missing = missing + 1 end
  end
  if missing > 0 then
    if not free then return false end
    if free + back < missing then
      local next = tonumber(redis.call('zrange', KEYS[2], 0, 0, 'withscores')[2])
      -- This is never a grant, whatever the scores are. If more leases are over than one call removes, it is -1.
      return next and next < FOREVER and -1 - math.max(math.ceil(next - now), 0) or 0
    end
    redis.call('decrby', KEYS[1], missing)
  end
  -- A late copy of the request must not shorten a lease that was renewed meanwhile.
  for _, id in ipairs(ids) do
    if tonumber(redis.call('zscore', KEYS[2], id) or 0) < now + lease then redis.call('zadd', KEYS[2], now + lease, id) end
  end
  local ttl = redis.call('pttl', KEYS[1])
  if ttl > 0 then redis.call('pexpire', KEYS[2], ttl) end
  local time = redis.call('time')
  return time[1] * 1000000 + time[2]
end

-- give_back removes the permits of one lease from the leases. It returns how many there were, and how many of them were held.
local function give_back(row)
  local now, back, held = clock(), 0, 0
  for _, id in ipairs(split(row)) do
    local ends = tonumber(redis.call('zscore', KEYS[2], id))
    if ends then
      back = back + redis.call('zrem', KEYS[2], id)
      if ends > now then held = held + 1 end
    end
  end
  return back, held
end

-- Renew the permits of many leases, each for its own time, and never shorten one.
-- USES  clock leased
-- KEYS  i       the leases of a semaphore: a sorted set of ids by their end
-- ARGV  2i - 1  lease time in ms
--       2i      the ids of the permits of lease i, 16 bytes each
-- RETURN  a list: 1 renewed, 0 some of them are no longer held
local now = clock()
local renewed = {}
for i, key in ipairs(KEYS) do
  local ids = split(ARGV[2 * i])
  -- A key that is no longer a semaphore must not prevent the renewal of the others.
  renewed[i] = redis.call('type', key).ok == 'zset' and 1 or 0
  for _, id in ipairs(renewed[i] == 1 and ids or {}) do
    local ends = tonumber(redis.call('zscore', key, id))
    if not ends or ends <= now then renewed[i] = 0 end
  end
  -- A server that is out of memory refuses ZADD, unless the script has written already.
  if renewed[i] == 1 then redis.call('zrem', key, '') end
  for _, id in ipairs(renewed[i] == 1 and ids or {}) do
    local had = tonumber(redis.call('zscore', key, id))
    local ends = math.max(had, now + ARGV[2 * i - 1])
    -- Written even if the lease is long enough: a replica may have an older end.
    if ends == had then redis.call('zadd', key, ends + 1, id) end
    redis.call('zadd', key, ends, id)
  end
end
return renewed

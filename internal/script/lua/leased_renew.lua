-- Renew the permits of many leases, each for its own time, and never shorten one.
-- KEYS  i       the leases of a semaphore: ids by when they end
-- ARGV  2i - 1  lease time in ms
--       2i      the ids of the permits of lease i, 16 bytes each
-- RETURN  a list: 1 renewed, 0 some of them are not held any more
local now = clock()
local renewed = {}
for i, key in ipairs(KEYS) do
  local ids = split(ARGV[2 * i])
  -- One key that is no semaphore any more must not keep the others from being renewed.
  renewed[i] = redis.call('type', key).ok == 'zset' and 1 or 0
  for _, id in ipairs(renewed[i] == 1 and ids or {}) do
    local ends = tonumber(redis.call('zscore', key, id))
    if not ends or ends <= now then renewed[i] = 0 end
  end
  -- A server that is out of memory refuses ZADD, unless the script has written before.
  if renewed[i] == 1 then redis.call('zrem', key, '') end
  for _, id in ipairs(renewed[i] == 1 and ids or {}) do
    local had = tonumber(redis.call('zscore', key, id))
    local ends = math.max(had, now + ARGV[2 * i - 1])
    -- Written also if there is enough left: the master may be the only one to know.
    if ends == had then redis.call('zadd', key, ends + 1, id) end
    redis.call('zadd', key, ends, id)
  end
end
return renewed

-- Who listens for the release of a lock.

-- numsub returns how many clients listen on channels: name, number, ... It returns an error if the user may not see that, or if a number
-- is impossible: Valkey 9.1 adds an address to the number while it resizes its table of the clients, which may take long.
local function numsub(publish, ...)
  local n = string.lower(publish) == 'spublish' and redis.pcall('pubsub', 'shardnumsub', ...) or redis.pcall('pubsub', 'numsub', ...)
  for i = 2, #n, 2 do
    if n[i] > 2 ^ 31 then return { err = 'the server miscounts' } end
  end
  return n
end

-- listeners returns how many clients wait and do not queue, how many of them are foreign, and how many clients listen on one more channel,
-- if one is given. Foreign are clients of Redisson, and clients of Holdfast that are not readers. It returns nil if that is unknown, see
-- numsub.
local function listeners(publish, channel, queue, ...)
  local n = numsub(publish, channel, queue, queue .. ':readers', ...)
  if n.err then return end
  return math.max(n[2] - n[4], n[6]), n[2] - n[4] - n[6], n[8]
end

-- outside returns how many of the clients that have received a message do not queue.
local function outside(heard, publish, channel, queue)
  if type(heard) ~= 'number' or heard == 0 then return 0 end
  return (listeners(publish, channel, queue, queue)) or heard
end

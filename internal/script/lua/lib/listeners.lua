-- Who listens for the release of a lock.

-- numsub returns how many clients listen on channels: name, number, ... It returns an error if the user may not see that.
local function numsub(publish, ...)
  if string.lower(publish) == 'spublish' then return redis.pcall('pubsub', 'shardnumsub', ...) end
  return redis.pcall('pubsub', 'numsub', ...)
end

-- listeners returns how many clients wait and do not queue, how many of them are foreign, and how many clients listen on one more channel.
-- Foreign are clients of Redisson, and clients of Holdfast that are not readers. It returns nil if the user may not see who listens.
local function listeners(publish, channel, queue, more)
  local n = numsub(publish, channel, queue, queue .. ':readers', more)
  if n.err then return end
  return math.max(n[2] - n[4], n[6]), n[2] - n[4] - n[6], n[8]
end

-- outside returns how many of the clients that have received a message do not queue.
local function outside(heard, publish, channel, queue)
  if type(heard) ~= 'number' or heard == 0 then return 0 end
  return (listeners(publish, channel, queue, queue)) or heard
end

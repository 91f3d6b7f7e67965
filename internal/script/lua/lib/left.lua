-- left publishes that a writer has released the lock, and returns how many clients received the message. The message 1 wakes all
-- sleeping threads of Redisson. A thread that has tried to acquire and does not sleep yet would miss it and wait for the whole lease.
-- The message 0 is kept for this thread.
local function left(publish, channel)
  local heard = redis.call(publish, channel, '1')
  redis.call(publish, channel, '0')
  return heard
end

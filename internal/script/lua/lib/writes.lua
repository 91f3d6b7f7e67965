-- A write lock in the queue. The part before it says which key has the writers with priority.
local kind = ':write'

local function take(owner)
  local field = owner .. ':write'
  if not give('mode', 'write', field, '1') then return end
  redis.pcall('zrem', writers, field)
  local now = micros()
  return now, now
end

-- writes returns the function that writes that a writer in the queue has the lock, and returns the token.
local function writes(writers)
  return function(_, field)
    if not give('mode', 'write', field, 1) then return end
    redis.pcall('zrem', writers, field)
    local now = redis.call('time')
    return now[1] * 1000000 + now[2]
  end
end

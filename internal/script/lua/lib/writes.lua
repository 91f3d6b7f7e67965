-- writes returns the function that writes that a writer in the queue has the lock, and returns the token.
local function writes(writers)
  return function(owner)
    local field = owner .. ':write'
    if not give('mode', 'write', field, '1') then return end
    redis.pcall('zrem', writers, field)
    return micros()
  end
end

-- foreign returns the error for a hash that is not a lock. No script changes such a hash.
local function foreign(key)
  return redis.error_reply('WRONGTYPE the hash ' .. key .. ' is not a lock: it has fields or values that no lock has')
end

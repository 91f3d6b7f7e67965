-- The ids in a row of them.
local function split(row)
  local ids = {}
  for at = 1, #row, 16 do ids[#ids + 1] = string.sub(row, at, at + 15) end
  return ids
end
-- Give back permits, unless the semaphore is gone. Returns how many clients heard of it.
local function restore(free, n, publish, channel)
  if n == 0 or redis.call('exists', free) == 0 then return 0 end
  local total = redis.call('incrby', free, n)
  if total <= 0 then return 0 end
  local heard = redis.pcall(publish, channel, total) -- it is done, whether anybody may be told or not
  return type(heard) == 'number' and heard or 0
end

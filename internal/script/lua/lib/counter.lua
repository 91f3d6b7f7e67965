-- The counter of fencing tokens.

-- last returns the last token as text, or nil and an error if the counter cannot be used.
local function last(counter, bound)
  local stored = redis.pcall('get', counter) or '0'
  if type(stored) == 'table' then return nil, stored end
  if #stored > 18 or stored ~= '0' and not string.find(stored, '^[1-9]%d*$') or tonumber(stored) > (bound or math.huge) then
    return nil, redis.error_reply('ERR the counter of fencing tokens ' .. counter .. ' is not a number from 0 to 2^53 - 2: set it to the last token that was given')
  end
  return stored
end

-- count returns the token of a grant: one more than at the last grant, or the same if the owner holds the lock. It returns nil and an
-- error if the counter cannot be used.
local function count(counter, held)
  -- Numbers in Lua are exact up to 2^53. Above that, a token would be issued twice.
  local stored, err = last(counter, 2 ^ 53 - (held and 1 or 2))
  if err then return nil, err end
  local token = tonumber(stored)
  if not held or token == 0 then -- 0: the counter was deleted while the lock was held
    token = redis.call('incr', counter)
    redis.call('persist', counter) -- Redisson's MultiLock sets the lease time on the counter; tokens would restart after it
  end
  return token
end

-- Refuse a token below the highest one that the resource has seen, else store it. The user's script follows.
-- KEYS  1 the fence, then the user's keys
-- ARGV  1 the token, then the user's arguments
-- RETURN  what the user's script returns, or the error STALE
do
  local fence, token = table.remove(KEYS, 1), table.remove(ARGV, 1)
  local seen = redis.call('get', fence) or '0' -- fails on a key of another type
  if not string.match(token or '', '^[1-9]%d*$') then
    return redis.error_reply('ERR the fencing token is not a positive number: give it as the first argument')
  end
  if not string.match(seen, '^%d+$') then
    return redis.error_reply('ERR the key ' .. fence .. ' does not hold a fencing token: another program writes to it')
  end
  -- Compared as text, because numbers in Lua are exact up to 2^53 only.
  if #token < #seen or #token == #seen and token < seen then
    return redis.error_reply('STALE token ' .. token .. ' is below ' .. seen .. ', which the resource has seen')
  end
  if token ~= seen then redis.call('set', fence, token) end
end

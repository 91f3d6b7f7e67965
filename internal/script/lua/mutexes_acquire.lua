-- Acquire several mutexes, or none. Idempotent.
-- KEYS  the locks
-- ARGV  1 lease time in ms
--       2 owner
-- RETURN  > 0  acquired; a token above those of all earlier grants
--         or a list: the index of the first lock that another owner holds, and -1 - the remaining ms, 0 if it never expires
local owner, lease, ttls = ARGV[2], ARGV[1], nil
if #KEYS > 1000 or redis.call('exists', unpack(KEYS)) > 0 then -- unpack returns a limited number
  ttls = {}
  for i, key in ipairs(KEYS) do
    local ttl = redis.call('pttl', key)
    if ttl ~= -2 and (redis.call('hexists', key, owner) == 0 or redis.call('hexists', key, 'mode') == 1) then -- 1: a read/write lock
      return { i, -1 - ttl }
    end
    ttls[i] = ttl
  end
end
local now = redis.call('time')
for i = 1, #KEYS do
  local key = KEYS[i]
  local reply = redis.pcall('hset', key, owner, '1')
  if (reply == 1 or reply == 0) and (not ttls or ttls[i] < tonumber(lease)) then reply = redis.pcall('pexpire', key, lease) end
  if reply ~= 1 and reply ~= 0 then
    -- The user lacks a right, or the server is out of memory. No other owner holds one of these locks, and no client has seen them
    -- acquired, so they are deleted without a message. One by one: the user may have no right to some.
    for j = 1, i do redis.pcall('del', KEYS[j]) end
    return reply
  end
end
return now[1] * 1000000 + now[2]

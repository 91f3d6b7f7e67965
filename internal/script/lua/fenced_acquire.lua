-- Take a mutex whose grants are counted, or enter it again. Running it twice does what running it once does.
-- KEYS  1 the lock
--       2 the counter, which outlives the lock
-- ARGV  1 lease time in ms
--       2 owner
--       3 how often the owner will hold it afterwards: 1, or more to enter again
-- RETURN  > 0   taken; the token: one more than at the last grant
--         <= 0  held by another owner, or, to enter again, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
local token
if ttl == -2 then
  if ARGV[3] ~= '1' then return -1 end
  if (tonumber(redis.call('get', KEYS[2])) or 0) < 0 then
    return redis.error_reply('ERR the counter of fencing tokens is negative')
  end
  token = redis.call('incr', KEYS[2])
  redis.call('persist', KEYS[2]) -- Redisson's MultiLock gives it the lease time, after which tokens would begin anew
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return -1 - ttl
else
  -- The owner's own; unless somebody has deleted the counter.
  token = tonumber(redis.call('get', KEYS[2])) or redis.call('incr', KEYS[2])
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return math.max(token, 1)

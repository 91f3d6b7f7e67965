-- Acquire a mutex with counted grants, or reenter it. Idempotent.
-- KEYS  1 the lock
--       2 the counter, which outlives the lock
-- ARGV  1 lease time in ms
--       2 owner
--       3 hold count of the owner afterwards: 1, or more to reenter
-- RETURN  > 0   acquired; the token: one more than at the last grant
--         <= 0  held by another owner, or, on reentry, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
local held = ttl ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 1 and redis.call('hexists', KEYS[1], 'mode') == 0 -- 1: a read/write lock
if ttl == -2 and ARGV[3] ~= '1' then return -1 end
if ttl ~= -2 and not held then return -1 - ttl end
-- Numbers in Lua are exact up to 2^53. Above that, a token would be issued twice.
local count = redis.call('get', KEYS[2]) or '0'
if count ~= '0' and not string.find(count, '^[1-9]%d*$') or tonumber(count) > 2 ^ 53 - (held and 1 or 2) then
  return redis.error_reply('ERR the counter of fencing tokens ' .. KEYS[2] .. ' is not a number from 0 to 2^53 - 2: set it to the last token that was given')
end
local token = tonumber(count)
if not held or token == 0 then -- 0: the counter was deleted while the lock was held
  token = redis.call('incr', KEYS[2])
  redis.call('persist', KEYS[2]) -- Redisson's MultiLock sets the lease time on the counter; tokens would restart after it
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return token

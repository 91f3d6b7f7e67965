-- Acquire a mutex with counted grants, or reenter it. Idempotent.
-- USES  counter
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
local token, err = count(KEYS[2], held)
if err then return err end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
return token

-- Acquire a mutex, or reenter it. Idempotent.
-- KEYS  1 the lock
-- ARGV  1 lease time in ms
--       2 owner
--       3 hold count of the owner afterwards: 1, or more to reenter
-- RETURN  > 0   acquired; a token above those of all earlier grants
--         <= 0  held by another owner, or, on reentry, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
if ttl == -2 then
  if ARGV[3] ~= '1' then return -1 end
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 or redis.call('hexists', KEYS[1], 'mode') == 1 then -- 1: a read/write lock
  return -1 - ttl
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
-- Reentry never shortens the lease.
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
local now = redis.call('time')
return now[1] * 1000000 + now[2]

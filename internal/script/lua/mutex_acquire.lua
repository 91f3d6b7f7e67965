-- Take a mutex, or enter it again. Running it twice does what running it once does.
-- KEYS  1 the lock
-- ARGV  1 lease time in ms
--       2 owner
--       3 how often the owner will hold it afterwards: 1, or more to enter again
-- RETURN  > 0   taken; a token above those of all earlier grants
--         <= 0  held by another owner, or, to enter again, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
if ttl == -2 then
  if ARGV[3] ~= '1' then return -1 end
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 or redis.call('hexists', KEYS[1], 'mode') == 1 then -- 1: a read/write lock
  return -1 - ttl
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
-- Entering again never shortens what was granted before.
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
-- Asked last: before Redis 5 no write may follow it.
local now = redis.call('time')
return now[1] * 1000000 + now[2]

-- Take a write lock, or enter it again. Running it twice does what running it once does.
-- KEYS  1 the lock
--       2 the writers that wait and want to be let in first
-- ARGV  1 lease time in ms
--       2 the writer's field
--       3 how often it will be held afterwards: 1, or more to enter again
--       4 for how many ms no reader may come in before the writer if it has to wait; 0: readers may
-- RETURN  > 0   taken; a token above those of all earlier grants
--         <= 0  held by others, or, to enter again, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ttl = redis.call('pttl', KEYS[1])
local waits = redis.call('zscore', KEYS[2], ARGV[2])
if ttl == -2 then
  if ARGV[3] ~= '1' then return -1 end
  redis.call('hset', KEYS[1], 'mode', 'write')
elseif redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  if ARGV[4] ~= '0' then
    local clock = redis.call('time')
    redis.call('zadd', KEYS[2], clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[4], ARGV[2])
    redis.call('pexpire', KEYS[2], ARGV[4])
  end
  return -1 - ttl
end
redis.call('hset', KEYS[1], ARGV[2], ARGV[3])
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
if waits then redis.call('zrem', KEYS[2], ARGV[2]) end
local now = redis.call('time')
return now[1] * 1000000 + now[2]

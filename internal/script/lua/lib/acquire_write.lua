-- The acquisition of a write lock that is free. It precedes all functions, since these cost as much as its commands.
-- KEYS  1 the lock
--       2 the waiting writers that have priority
-- ARGV  1 lease time in ms
--       2 the writer's field
--       3 hold count afterwards
if ARGV[3] == '1' and redis.call('exists', KEYS[1], KEYS[2]) == 0 then
  redis.call('hset', KEYS[1], 'mode', 'write', ARGV[2], ARGV[3])
  redis.call('pexpire', KEYS[1], ARGV[1])
  local now = redis.call('time')
  return now[1] * 1000000 + now[2]
end

-- The acquisition of a read lock that is free. It precedes all functions, since these cost as much as its commands.
-- KEYS  1 the lock
--       2 prefix of all readers' keys
-- ARGV  1 lease time in ms
--       2 owner
--       4 hold count of the owner afterwards, or nothing for 1
local priority = 'holdfast:writers:' .. KEYS[2] -- the waiting writers that have it
if not ARGV[4] and redis.call('exists', KEYS[1], priority) == 0 then
  redis.call('hset', KEYS[1], 'mode', 'read', ARGV[2], '1')
  -- The lock comes before the reader's key. Time passes between two commands, and the lock must not outlast its last reader.
  redis.call('pexpire', KEYS[1], ARGV[1])
  redis.call('set', KEYS[2] .. ':' .. ARGV[2] .. ':rwlock_timeout:1', '1', 'px', ARGV[1])
  local now = redis.call('time')
  return now[1] * 1000000 + now[2]
end

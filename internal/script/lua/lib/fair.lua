-- The queue of a fair lock.
-- KEYS  1 the lock
--       2 the queue: a list of owners, the next one first
--       3 until when each is waited for at least, by Redisson's rule, in ms of the epoch
--       4 until when each of ours is waited for, unless it gives another sign of life;
--         and, for the owner '', until when nobody is dropped
--       5 the channel, to which the owner is appended
local LIFE = 2500   -- ms between a sign of life and death
local SLACK = 10000 -- ms that Redisson's clocks may be off
local TURN = 300000 -- ms that Redisson takes off the limits of all when one of its waiters is through
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- forget drops the times of an owner that has left the queue, and all that is ours with the last one.
local function forget(owner)
  redis.call('zrem', KEYS[3], owner)
  redis.call('zrem', KEYS[4], owner)
  if redis.call('exists', KEYS[2]) == 0 then redis.call('del', KEYS[4]) end
end

-- first drops the dead at the head of the queue and returns who is next, until when he is waited for, and whether
-- anybody was dropped. Only a waiter that gives its own signs in time can tell who is dead from who could not reach the
-- server either; for anybody else a waiter must be dead by Redisson's rule as well. An owner without any time would
-- block the queue for ever.
local function first(in_time)
  local dropped = false
  while true do
    local owner = redis.call('lindex', KEYS[2], 0)
    if not owner then return nil, 0, dropped end
    local till = tonumber(redis.call('zscore', KEYS[3], owner)) or 0
    local sign = tonumber(redis.call('zscore', KEYS[4], owner))
    if sign and (in_time or till <= now) then till = sign end
    if till > now then return owner, till, dropped end
    redis.call('lpop', KEYS[2])
    forget(owner)
    dropped = true
  end
end

-- call tells an owner that it is his turn, and returns how many heard it.
local function call(publish, owner)
  return redis.call(publish, KEYS[5] .. ':' .. owner, '0')
end

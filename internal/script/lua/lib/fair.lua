-- The queue of a fair lock.
-- KEYS  1 the lock
--       2 the queue: a list of owners, the next one first
--       3 until when each is waited for at least, by Redisson's rule, in ms of the epoch
--       4 until when each of ours is waited for, unless it gives another sign of life;
--         and, for the owner '', until when nobody is dropped
--       5 the channel, to which the owner is appended
local LIFE = 2500    -- ms between a sign of life and death
local SLACK = 10000  -- ms that Redisson's clocks may be off
local TURN = 300000  -- ms that Redisson takes off the limits of all when one of its waiters is through
local MOMENT = 1500  -- ms for which nobody is dropped after somebody was late
local LEFT = 3600000 -- ms from the last signs of life to the end of a queue in which only ours wait, or half as many
local DROPS = 500    -- a call drops so many of the dead
local BYTES = 100000 -- and no more than so many bytes of them, but one in any case
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- limit returns until when an owner is waited for by Redisson's rule, and whether anything is stored. What is more than 64 bits
-- counts as no limit: neither Redisson nor Holdfast writes it.
local function limit(owner)
  local score = redis.call('zscore', KEYS[3], owner)
  local till = tonumber(score or nil) or 0
  return till > -1e19 and till < 1e19 and till or 0, score and true or false
end

-- sign returns until when an owner of ours is waited for, or nil. A time further ahead than a sign of life reaches was not written
-- by one, or the clock was set back since.
local function sign(owner, most)
  local till = tonumber(redis.call('zscore', KEYS[4], owner) or nil)
  return till and till > -1e19 and till <= now + most and till or nil
end

-- forget drops the times of owners that have left the queue, and all that is ours with the last one.
local function forget(...)
  redis.call('zrem', KEYS[3], ...)
  redis.call('zrem', KEYS[4], ...)
  if redis.call('exists', KEYS[2]) == 0 then redis.call('del', KEYS[4]) end
end

-- first drops the dead at the head of the queue and returns who is next, until when he is waited for, and whether
-- anybody was dropped. Only a waiter that gives its own signs in time can tell who is dead from who could not reach the
-- server either; for anybody else a waiter must be dead by Redisson's rule as well. An owner without any time would
-- block the queue for ever. After DROPS of the dead the next one is waited for a ms, dead or not: the next call goes on.
local function first(in_time)
  local dead, owner, till, bytes = {}, nil, nil, 0
  repeat
    owner = redis.call('lindex', KEYS[2], 0)
    till = owner and limit(owner) or 0
    local living = owner and (in_time or till <= now) and sign(owner, LIFE)
    if living then till = living end
    bytes = bytes + (owner and #owner or 0)
    if #dead == DROPS or #dead > 0 and bytes > BYTES then till = now + 1 end
    if owner and till <= now then dead[#dead + 1] = redis.call('lpop', KEYS[2]) end
  until not owner or till > now
  if #dead > 0 then forget(unpack(dead)) end
  return owner or nil, till, #dead > 0
end

-- keep lets the queue end LEFT ms after the last signs of life if all who wait there are ours. Redisson's waiters do not say that
-- they still wait, so with one of them in it a queue has no end. signed is whether this call is a sign of life.
local function keep(signed)
  local waiting = redis.call('llen', KEYS[2])
  if waiting == 0 then return end
  local ours = waiting <= redis.call('zcard', KEYS[4]) - (redis.call('zscore', KEYS[4], '') and 1 or 0)
  local raise = ours and signed and redis.call('pttl', KEYS[2]) < LEFT / 2
  if raise then -- Java may have dropped one that has signs, so numbers are not enough
    for i = 0, math.min(waiting, 100) - 1 do
      ours = ours and redis.call('zscore', KEYS[4], redis.call('lindex', KEYS[2], i))
    end
  end
  for i = 2, 3 do
    if not ours then redis.call('persist', KEYS[i]) elseif raise then redis.call('pexpire', KEYS[i], LEFT) end
  end
end

-- call tells an owner that it is his turn, and returns how many heard it.
local function call(publish, owner)
  return redis.call(publish, KEYS[5] .. ':' .. owner, '0')
end

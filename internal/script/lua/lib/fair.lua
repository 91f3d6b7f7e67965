-- The queue of a fair lock.
-- KEYS  1 the lock
--       2 the queue: a list of owners, the next one first
--       3 the limit of each owner by Redisson's rule: it stays in the queue at least until then, in ms of the Unix epoch
--       4 the heartbeat deadline of each Holdfast owner: it is dead after this time without another heartbeat; half a ms less if its
--         client listens for grants; and, for the owner '', the time until which no owner is dropped
--       5 the channel prefix, to which the owner is appended
local LIFE = 2500    -- ms from a heartbeat to its deadline
local SLACK = 10000  -- ms of tolerance for the clocks of Redisson
local TURN = 300000  -- ms that Redisson subtracts from all limits when one of its waiters leaves the queue
local MOMENT = 1500  -- ms without drops after a late heartbeat
local LEFT = 3600000 -- ms, or half as many, from the last heartbeats to the expiry of a queue that has only Holdfast owners
local DROPS = 500    -- a call drops at most so many dead owners
local BYTES = 100000 -- and at most so many bytes of them, but at least one owner
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- limit returns the limit of an owner by Redisson's rule, and whether one is stored. A value of more than 64 bits counts as no
-- limit: neither Redisson nor Holdfast writes it.
local function limit(owner)
  local score = redis.call('zscore', KEYS[3], owner)
  local till = tonumber(score or nil) or 0
  return till > -1e19 and till < 1e19 and till or 0, score and true or false
end

-- sign returns the heartbeat deadline of a Holdfast owner, or nil. A deadline further ahead than LIFE was not written by a
-- heartbeat, or the clock was set back since.
local function sign(owner, most)
  local till = tonumber(redis.call('zscore', KEYS[4], owner) or nil)
  return till and till > -1e19 and till <= now + most and till or nil
end

-- lost reports whether an owner is one of Holdfast, by the id of its client, a UUID of version 8, and has no heartbeat any more.
local function lost(owner)
  return #owner <= 100 and string.find(owner, '^%x+%-%x+%-8') and not redis.call('zscore', KEYS[4], owner)
end

-- forget removes the times of owners that have left the queue. If the queue is empty, it removes all heartbeats.
local function forget(...)
  redis.call('zrem', KEYS[3], ...)
  redis.call('zrem', KEYS[4], ...)
  if redis.call('exists', KEYS[2]) == 0 then redis.call('del', KEYS[4]) end
end

-- first drops the dead owners at the head of the queue. It returns the next owner, the time until which it stays, and whether an
-- owner was dropped. A caller whose own heartbeats are in time could reach the server, so for this caller an owner with a late
-- heartbeat is dead, and so is an owner of Holdfast whose heartbeats have expired. For other callers an owner must also be dead by
-- Redisson's rule. An owner without any time is dead: otherwise it would block the queue for ever. After DROPS dead owners, the next one stays for a ms, dead or not, and the next call continues.
local function first(in_time)
  local dead, owner, till, bytes = {}, nil, nil, 0
  repeat
    owner = redis.call('lindex', KEYS[2], 0)
    till = owner and limit(owner) or 0
    local living = owner and (in_time or till <= now) and sign(owner, LIFE)
    if living then till = living elseif owner and in_time and lost(owner) then till = 0 end
    bytes = bytes + (owner and #owner or 0)
    if #dead == DROPS or #dead > 0 and bytes > BYTES then till = now + 1 end
    if owner and till <= now then dead[#dead + 1] = redis.call('lpop', KEYS[2]) end
  until not owner or till > now
  if #dead > 0 then forget(unpack(dead)) end
  return owner or nil, till, #dead > 0
end

-- keep sets the expiry of the queue to LEFT ms after the last heartbeats if it has only Holdfast owners. Redisson's waiters send no
-- heartbeats, so a queue with one of them never expires. The parameter signed says whether this call is a heartbeat.
local function keep(signed)
  local waiting = redis.call('llen', KEYS[2])
  if waiting == 0 then return end
  local ours = waiting <= redis.call('zcard', KEYS[4]) - (redis.call('zscore', KEYS[4], '') and 1 or 0)
  local raise = ours and signed and redis.call('pttl', KEYS[2]) < LEFT / 2
  if raise then -- Redisson may have dropped an owner with a heartbeat, so comparing the sizes is not enough
    for i = 0, math.min(waiting, 100) - 1 do
      ours = ours and redis.call('zscore', KEYS[4], redis.call('lindex', KEYS[2], i))
    end
  end
  for i = 2, 3 do
    if not ours then redis.call('persist', KEYS[i]) elseif raise then redis.call('pexpire', KEYS[i], LEFT) end
  end
end

-- client returns the channel on which the client of an owner in the queue listens for grants, or nil if it does not.
local function client(owner)
  local id = #owner <= 100 and string.match(owner, '^([%x-]+):%d+$')
  local deadline = id and sign(owner, LIFE)
  return deadline and deadline % 1 > 0 and 'holdfast:queue' .. string.sub(KEYS[4], #'holdfast:waiting' + 1) .. ':' .. id or nil
end

-- call notifies an owner that it is next, and returns how many clients received the message.
local function call(publish, owner)
  local channel = client(owner)
  if channel then told(publish, channel, owner) end
  return redis.call(publish, KEYS[5] .. ':' .. owner, '0')
end

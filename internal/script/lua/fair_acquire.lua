-- Acquire a fair lock, reenter it, or queue for it. Idempotent.
-- USES  held grant fair
-- KEYS  see lib/fair.lua
-- ARGV  1 lease time in ms
--       2 owner
--       3 hold count of the owner afterwards: 1, or more to reenter
--       4 1 to queue for it, or to send a heartbeat in the queue; 0 to try once
--       5 PUBLISH or SPUBLISH
--       6 1 if the client listens on its channel; otherwise missing
--       7 how many may queue; missing without a limit
-- RETURN  > 0   acquired; a token above those of all earlier grants
--         <= 0  held by another owner, or another owner is next, or, on reentry, no longer held:
--               -1 - the remaining ms, 0 if it never expires
--         If the client listens on its channel, a list of that, and 1 if it need not listen on the channel of the owner: neither the holder
--         nor an owner in the queue is one of Redisson
--         If the queue is full without those that have sent no heartbeat for LIFE, a list of that, and -1
local owner = ARGV[2]
local ttl = redis.call('pttl', KEYS[1])
local function grant()
  local lease = math.max(ttl, tonumber(ARGV[1]))
  -- A server that is out of memory refuses HSET, unless the script has written already. A request that is sent again may have the lock.
  local again = ttl ~= -2 and ARGV[3] == '1'
  if again then redis.call('pexpire', KEYS[1], lease) end
  redis.call('hset', KEYS[1], owner, ARGV[3])
  if not again then redis.call('pexpire', KEYS[1], lease) end
  return clock[1] * 1000000 + clock[2]
end
if ttl ~= -2 and redis.call('hexists', KEYS[1], owner) == 1 and redis.call('hexists', KEYS[1], 'mode') == 0 then return grant() end -- 1: a read/write lock
if ARGV[3] ~= '1' then return -1 end

-- A waiter sends a heartbeat every second. If this one is late, the server may have been unreachable, and the heartbeats of other
-- waiters are late, too. So for MOMENT ms no waiter is dropped, and all can send one. This is not repeated within AGAIN ms:
-- otherwise one waiter on a slow connection would keep dead waiters in the queue.
local BEAT, LATE, AGAIN = 500, 1500, 10000
local last = sign(owner, LIFE)
local silent = last and now + LIFE - math.ceil(last)
local listens = ARGV[6] == '1'
local known = last and (last % 1 > 0) == listens -- the server knows whether the client listens
local peace = sign('', MOMENT) or 0
if (silent and silent > LATE or lost(owner) and redis.call('zscore', KEYS[3], owner)) and peace + AGAIN < now then
  peace = now + MOMENT
  redis.call('pexpire', KEYS[4], 10 * LIFE) -- a server that is out of memory refuses nothing after a first write
  redis.call('zadd', KEYS[4], peace, '')
end
local head, ends, dropped = first(silent and silent >= BEAT and peace <= now)
if ttl == -2 and (not head or head == owner) then
  if head then
    redis.call('lpop', KEYS[2])
    forget(owner)
    keep(false)
  end
  return grant()
end
if ARGV[4] == '1' then
  local till, queued = limit(owner)
  if not queued and ARGV[7] and redis.call('llen', KEYS[2]) >= tonumber(ARGV[7]) then
    for _, dead in ipairs(peace <= now and redis.call('zrangebyscore', KEYS[4], '-inf', now, 'limit', 0, 16) or {}) do
      redis.call('lrem', KEYS[2], 0, dead)
      forget(dead)
    end
    if redis.call('llen', KEYS[2]) >= tonumber(ARGV[7]) then return { held(ttl), -1 } end
  end
  local before = not queued and redis.call('lindex', KEYS[2], -1)
  local length = not queued and redis.call('rpush', KEYS[2], owner)
  if not queued or not silent or silent >= BEAT or not known then
    redis.call('pexpire', KEYS[4], 10 * LIFE)
    redis.call('zadd', KEYS[4], now + LIFE - (listens and 0.5 or 0), owner)
    if not queued then
      -- Each Redisson waiter ahead in the queue will later subtract TURN from this limit, or what it has added to its own limit if
      -- that was more. Waiters behind do not subtract anything. So the limit includes TURN for each Redisson waiter ahead and
      -- nothing else: no waiter would subtract the rest. A waiter that Redisson has dropped cannot know which of the other
      -- Holdfast waiters are still in the queue.
      local ours = silent and 1 or redis.call('zcount', KEYS[4], now, '+inf') - (peace >= now and 1 or 0)
      till = math.max(now + SLACK + TURN * math.max(length - ours, 0), before and limit(before) or 0)
    elseif head == owner then
      till = 0 -- no waiter is left that could subtract from it
    else
      till = till + (silent or 0) -- the distance to now stays the same, however long the lock is held
    end
    redis.call('zadd', KEYS[3], math.max(till, now + SLACK), owner)
    redis.call('pexpire', KEYS[4], 10 * LIFE)
    keep(true)
  end
end
local function refused(ms)
  if ARGV[6] ~= '1' then return held(ms) end
  local holder = ttl == -2 or redis.pcall('hrandfield', KEYS[1]) -- Redis 6.0 does not support it
  -- The id of a Holdfast client is a UUID of version 8.
  local ours = holder == true or type(holder) == 'string' and #holder <= 100 and string.find(holder, '^%x+%-%x+%-8')
  local all = redis.call('llen', KEYS[2]) <= redis.call('zcard', KEYS[4]) - (redis.call('zscore', KEYS[4], '') and 1 or 0)
  return {held(ms), ours and all and 1 or 0}
end
if ttl ~= -2 then return refused(ttl) end
-- The lock is free, but the next waiter has not acquired it. It may have missed the message.
if dropped or (silent and silent >= BEAT) then call(ARGV[5], head) end
return refused(math.max(ends - now, 1))

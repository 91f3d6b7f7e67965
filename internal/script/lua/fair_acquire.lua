-- Take a fair lock, or enter it again, or queue for it. Running it twice does what running it once does.
-- KEYS  see lib/fair.lua
-- ARGV  1 lease time in ms
--       2 owner
--       3 how often the owner will hold it afterwards: 1, or more to enter again
--       4 1 to queue for it, or to give a sign of life in the queue; 0 to try once
--       5 PUBLISH or SPUBLISH
-- RETURN  > 0   taken; a token above those of all earlier grants
--         <= 0  held by another owner, or another one is next, or, to enter again, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local owner = ARGV[2]
local ttl = redis.call('pttl', KEYS[1])
local function grant()
  redis.call('hset', KEYS[1], owner, ARGV[3])
  if ttl < tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[1]) end
  return clock[1] * 1000000 + clock[2]
end
if ttl ~= -2 and redis.call('hexists', KEYS[1], owner) == 1 and redis.call('hexists', KEYS[1], 'mode') == 0 then return grant() end -- 1: a read/write lock
if ARGV[3] ~= '1' then return -1 end

-- Who waits asks every second. Whoever is late may not have been able to, and then others were not, either: for a moment
-- nobody is dropped, so that all can speak. But not again and again, or one on a slow line would keep the dead.
local BEAT, LATE, AGAIN = 500, 1500, 10000
local last = sign(owner, LIFE)
local silent = last and now + LIFE - last
local peace = sign('', MOMENT) or 0
if silent and silent > LATE and peace + AGAIN < now then
  peace = now + MOMENT
  redis.call('pexpire', KEYS[4], 10 * LIFE) -- where memory is full nothing is refused after a first write
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
  local before = not queued and redis.call('lindex', KEYS[2], -1)
  local length = not queued and redis.call('rpush', KEYS[2], owner)
  if not queued or not silent or silent >= BEAT then
    redis.call('pexpire', KEYS[4], 10 * LIFE)
    redis.call('zadd', KEYS[4], now + LIFE, owner)
    if not queued then
      -- Every Java waiter in front will take its turn off this limit when it is through, or what it has added to its
      -- own limit if that was more; those behind will not. Nothing is added to that: nobody would take it off again.
      -- Whom Java has swept out cannot know which others of ours are still there.
      local ours = silent and 1 or redis.call('zcount', KEYS[4], now, '+inf') - (peace >= now and 1 or 0)
      till = math.max(now + SLACK + TURN * math.max(length - ours, 0), before and limit(before) or 0)
    elseif head == owner then
      till = 0 -- nobody is left who could take anything off it
    else
      till = till + (silent or 0) -- as far ahead as it was, however long the holder takes
    end
    redis.call('zadd', KEYS[3], math.max(till, now + SLACK), owner)
    redis.call('pexpire', KEYS[4], 10 * LIFE)
    keep(true)
  end
end
if ttl ~= -2 then return held(ttl) end
-- Whoever is next and does not take what is free may not have heard of it.
if dropped or (silent and silent >= BEAT) then call(ARGV[5], head) end
return held(math.max(ends - now, 1))

-- How an owner enters the queue.

-- entry returns the entry of an owner with what it wants, by the lease time in ms.
local function entry(member, lease)
  local ms = tonumber(lease)
  if ms >= GRANT then return member end
  local k = 0
  while 2 ^ (k + 1) <= ms do k = k + 1 end
  return member .. ':short' .. k
end

-- enqueue returns the reply for a lock that is held for ms, -1 without end: -1 - ms, the place in the queue, 0 if it is not queued, -1
-- if most are in the queue already, and the score of the entry, by which the client knows that a grant is of this entry. Where most is
-- '', any number can queue. If check is '1', nothing is added unless the user may remove it, too: an entry that cannot be removed would
-- stay when its owner has the lock.
local function enqueue(member, lease, ms, most, check)
  local reply = -1 - math.max(math.min(ms, 9e15), -1)
  -- The queue may hold data of another type, a server that is out of memory refuses to add to it, and the user may lack a right. The
  -- first call adds nothing. It must be the first: after another write, a server that is out of memory refuses nothing.
  if check == '1' and (fails(redis.pcall('zadd', queue, 'xx', 0, '')) or fails(redis.pcall('zrem', queue, ''))) then return { reply, 0 } end
  member = entry(member, lease)
  local score = micros()
  local added = redis.pcall('zadd', queue, 'nx', score, member)
  if fails(added) then return { reply, 0 } end
  local place = added == 1 and redis.pcall('zcard', queue) or redis.pcall('zrank', queue, member) -- a new entry is the last one
  if fails(place) or added == 1 and most ~= '' and place > tonumber(most) then
    redis.pcall('zrem', queue, member)
    return { reply, fails(place) and 0 or -1 }
  end
  if added == 0 then place, score = place + 1, redis.call('zscore', queue, member) end
  if place <= 8 then redis.call('pexpire', queue, '300000') end -- those at the front ask often enough
  return { reply, place, tonumber(score) }
end

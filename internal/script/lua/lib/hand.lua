-- How a lock that is free is handed to an owner in the queue. The part before it says what the lock is: kind is what the entry of such an
-- owner says after its number. take writes that the owner has the lock, and returns the token, and the time if it has read that.

-- hand hands the lock to the owner of an entry and tells its client, which listens. It returns false if the user may not remove the entry
-- or not publish to the client.
local function hand(member, client, owner, ms, score)
  local token, now = take(owner)
  if not token then return false end
  redis.call('pexpire', KEYS[1], ms)
  if not fails(redis.pcall('zrem', queue, member)) and announce(publish, client, owner, token, ms, score) then
    if (now or micros()) - score >= YOUNG then tell_first(publish, ms) end -- those behind it are younger
    return true
  end
  redis.call('del', KEYS[1])
  return false
end

-- The usual end of a release that clients queue for: the first in the queue gets the lock, and no other client waits. It precedes the
-- functions for the other cases.
if freed and head[1] and lot ~= '0' then -- 0: all are told, see free_for_all
  local client, owner, wanted = parse(head[1])
  if client and wanted == kind then
    local others, _, listening = listeners(publish, channel, queue, client)
    if others == 0 and listening > 0 and hand(head[1], client, owner, '3000', head[2]) then return 1 end
  end
end

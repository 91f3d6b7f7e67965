-- How a release passes a lock on to a client in the queue, if the usual end of a release does not apply: see lib/hand.lua.

-- front returns how many clients wait and do not queue, how many of them are foreign, and the first entry whose client listens: the entry,
-- what parse returns for it, and its score. It removes entries whose clients do not listen: they queue again when they listen
-- again. It returns nothing if it is unknown who listens.
local function front(publish, channel)
  local others, foreign, listening
  for _ = 1, SKIPS do
    local head = redis.pcall('zrange', queue, 0, 0, 'withscores')
    local member = head[1]
    if not member then break end
    local client, owner, wanted = parse(member)
    others, foreign, listening = listeners(publish, channel, queue, client or queue)
    if not others then return end
    if client and listening > 0 then return others, foreign, member, client, owner, wanted, head[2] end
    local removed = redis.pcall('zrem', queue, member)
    if #member > LONG or fails(removed) then break end
  end
  return others
end

-- depart removes an owner that has given up. It returns true if the lock is free and others wait for it: then the caller passes it on.
local function depart(member, publish)
  local others, first = abandon(member)
  if not others then return false end
  local ttl = redis.call('pttl', KEYS[1])
  if first and ttl ~= -2 then tell_first(publish, ttl) end
  return ttl == -2
end

-- pass gives a free lock to the first client in the queue that listens. If the lock stays free, or the first client wants it as another
-- kind and may be gone, pass tells all other clients with one message or two. It returns how many other clients wait.
local function pass()
  local function wake()
    local heard = told(publish, channel, message)
    if message2 then told(publish, channel, message2) end
    return heard
  end
  local others, foreign, member, client, owner, wanted, score = front(publish, channel)
  if member then
    local ms = GRANT
    if wanted ~= kind then wanted, ms = spell(wanted) end
    if wanted ~= kind or free_for_all(others, foreign, tonumber(lot)) then
      wake()
      told(publish, client, '')
      return others
    end
    if hand(member, client, owner, ms, score) then return 0 end
  end
  local heard = wake()
  return others or outside(heard, publish, channel, queue)
end

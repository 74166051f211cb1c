-- Probes of one target. ask: 1, 2 the time or -1; 3 what to do; 4, 5 the episode's halves; 6 the stage, 7 how many are
-- wanted, 8 how many there are, 9 the node, 10 for how long.
-- What is kept: the latest episode's halves, its stage, then for every node with probes: its name, how many, until when.
local ask = cmsgpack.unpack(ARGV[1])
--TIME
local function decide()
  local raw = redis.call('GET', KEYS[1])
  local there = raw and cmsgpack.unpack(raw) or { 0, 0, 0 }
  local later = 0
  for place = 1, 3 do
    if later == 0 then
      if ask[place + 3] > there[place] then later = 1 elseif ask[place + 3] < there[place] then later = -1 end
    end
  end
  if ask[3] == 2 and (later ~= 0 or not raw) then return { 0 } end
  if later < 0 then return { 0 } end
  local kept, taken = { ask[4], ask[5], ask[6] }, 0
  if later == 0 then
    for place = 4, #there, 3 do
      if there[place] ~= ask[9] and there[place + 2] > mono then
        taken = taken + there[place + 1]
        for part = 0, 2 do kept[#kept + 1] = there[place + part] end
      end
    end
  end
  local granted = 0
  if ask[3] == 1 then
    granted = math.max(math.min(ask[7], ask[8] - taken), 0)
    if granted > 0 then
      kept[#kept + 1], kept[#kept + 2], kept[#kept + 3] = ask[9], granted, mono + ask[10]
    end
  end
  redis.call('SET', KEYS[1], cmsgpack.pack(kept), 'PX', 86400000)
  return { granted }
end
local fine, answer = pcall(decide)
if fine then return answer end
-- Nobody knows who probes: nobody may until that would have passed.
redis.call('SET', KEYS[1], cmsgpack.pack({ ask[4], ask[5], ask[6], '', ask[8], mono + ask[10] }), 'PX', 86400000)
return { 9, tostring(answer) }
